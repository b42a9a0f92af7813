"""Three chaos tests of a team of its own. Run them: pytest docs/examples/test_stall.py"""

import time


def test_a_short_stall_of_the_kv_link_loses_nothing(pd_deployment, stall):
    with stall("kv:p0-d0"):
        answer = pd_deployment.send("Tell me about lighthouses. " * 20, max_new_tokens=8)
        time.sleep(0.5)
        assert not answer.done()  # the pages cannot get through
    assert answer.result().completed
    pd_deployment.require_released()


def test_a_long_blackhole_aborts_on_both_sides(pd_deployment, link):
    with link("control:p0-d0").blackhole():
        answer = pd_deployment.generate("Tell me about lighthouses. " * 20, max_new_tokens=8)
        assert not answer.completed
        assert answer.status in (500, 503, 504)
    assert pd_deployment.generate("And now?").completed
    pd_deployment.require_released()


def test_a_dead_decode_worker_comes_back(pd_deployment, kill):
    with kill("d0"):
        assert not pd_deployment.generate("Is anybody there?", within_s=10).completed
    pd_deployment.wait_serving(within_s=30)
    assert pd_deployment.generate("And now?").completed
