"""Links between prefill and decode: sessions, reliable windows, beats, and the rendezvous."""
