"use strict";
(() => {
  const WAITING = new Set(["queue", "bootstrap", "decode.wait_kv"]);
  const ABORT = new Set(["abort", "abort.notify_peer", "kv.release"]);
  const holder = document.getElementById("waterfalls-data");
  const data = holder ? JSON.parse(holder.textContent) : {texts: [], requests: []};
  const word = (index) => data.texts[index];

  // Text only ever goes in as text nodes, so nothing that a server sent is read as HTML.
  const make = (tag, className, ...children) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    node.append(...children);
    return node;
  };
  const pairs = (list) => {
    const out = [];
    for (let i = 0; i + 1 < list.length; i += 2) out.push([word(list[i]), word(list[i + 1])]);
    return out;
  };
  const duration = (us) => {
    if (us < 1000) return `${us} µs`;
    const ms = us / 1000;
    return ms < 100 ? `${ms.toFixed(1)} ms` : ms < 10000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(1)} s`;
  };
  const tone = (name, service) => {
    if (ABORT.has(name)) return "s-abort";
    if (WAITING.has(name)) return "s-waiting";
    return ["load", "prefill", "decode", "unified", "chaos"].includes(service) ? `s-${service}` : "s-load";
  };

  const drawSpan = ([depth, name, service, start, took, status, orphan, attributes], total) => {
    const label = make("div", "label", word(name), make("i", "", word(service) + (orphan ? " · parent never arrived" : "")));
    label.style.paddingLeft = `${depth * 0.9}rem`;
    const bar = make("div", `bar ${tone(word(name), word(service))}`);
    const left = (100 * start) / total;
    const width = (100 * took) / total;
    bar.style.left = `${left}%`;
    bar.style.width = `${width}%`;
    const length = make("span", "", duration(took));
    length.style.left = `${left + width}%`;
    const row = make("div", `span${word(status) === "error" ? " error" : ""}`, label, make("div", "track", bar, length));
    row.title = `${word(name)} · ${word(service)} · +${duration(start)} · ${duration(took)}`;
    let table = null;
    row.addEventListener("click", () => {
      if (table) { table.remove(); table = null; return; }
      table = make("dl", "attributes");
      for (const [key, value] of pairs(attributes)) table.append(make("dt", "", key), make("dd", "", value));
      row.after(table);
    });
    return row;
  };

  const drawScale = (total) => {
    const track = make("div", "");
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      const mark = make("span", "", duration(Math.round(total * share)));
      mark.style.left = `${share * 100}%`;
      track.append(mark);
    }
    return make("div", "scale", make("div", ""), track);
  };

  const draw = (details) => {
    const target = details.querySelector(".waterfall");
    const request = data.requests[Number(details.dataset.index)];
    if (!request || target.firstChild) return;
    const facts = make("p", "client");
    for (const [key, value] of pairs(request.facts)) facts.append(make("span", "", make("b", "", key), value));
    target.append(facts);
    if (!request.rows.length) {
      target.append(make("p", "note", "No span of this request arrived: only what the client saw is known."));
      return;
    }
    const total = Math.max(1, ...request.rows.map((row) => row[3] + row[4]));
    target.append(drawScale(total), ...request.rows.map((row) => drawSpan(row, total)));
    if (request.left_out) target.append(make("p", "note", `${request.left_out} more spans are left out.`));
  };

  const byRid = new Map();
  for (const details of document.querySelectorAll("details.request")) {
    byRid.set(details.dataset.rid, details);
    details.addEventListener("toggle", () => { if (details.open) draw(details); });
  }
  const show = (details) => {
    if (!details) return;
    details.open = true;
    draw(details);
    details.scrollIntoView({block: "start"});
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-rid]");
    if (link && byRid.has(link.dataset.rid)) {
      event.preventDefault();
      history.replaceState(null, "", link.getAttribute("href"));
      show(byRid.get(link.dataset.rid));
    }
  });
  const showTarget = () => show([...byRid.values()].find((one) => `#${one.id}` === location.hash));
  addEventListener("hashchange", showTarget);
  if (location.hash) showTarget();

  for (const input of document.querySelectorAll("input[data-filter]")) {
    const rows = document.querySelectorAll(`#${input.dataset.filter} tbody tr`);
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) {
        const text = (row.textContent + [...row.querySelectorAll("[title]")].map((one) => one.title).join(" ")).toLowerCase();
        row.hidden = !words.every((one) => text.includes(one));
      }
    });
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => head.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => {
        const cell = row.cells[column];
        return cell.dataset.sort !== undefined ? Number(cell.dataset.sort) : cell.classList.contains("num") ? -Infinity : cell.textContent;
      };
      const rows = [...table.tBodies[0].rows].sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
        return up ? order : -order;
      });
      table.tBodies[0].append(...rows);
    }));
  }
})();
