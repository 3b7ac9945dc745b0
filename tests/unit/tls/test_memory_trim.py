from __future__ import annotations

from zonequake_tls.memory_trim import MemoryTrim


def test_memory_is_given_back_after_a_crowd_and_not_more_often_than_every_ten_seconds() -> None:
    now_s, given = 100.0, list[float]()
    memory = MemoryTrim(now_s=lambda: now_s, give_back=lambda: given.append(now_s))

    def crowd(size: int) -> None:
        for _ in range(size):
            memory.used()
        memory.tick()

    crowd(255)
    assert given == [], "a few are not worth it"
    crowd(1)
    assert given == [100.0]
    now_s = 109.9
    crowd(1000)
    assert given == [100.0]
    now_s = 110.0
    memory.tick()
    assert given == [100.0, 110.0]


def test_what_the_last_of_a_crowd_had_is_given_back_too_and_then_no_more() -> None:
    now_s, given = 100.0, list[float]()
    memory = MemoryTrim(now_s=lambda: now_s, give_back=lambda: given.append(now_s))
    for _ in range(300):
        memory.used()
    memory.tick()  # and now the last ones go
    for moment_s in (109.0, 110.0, 120.0, 130.0):
        now_s = moment_s
        memory.tick()
    assert given == [100.0, 110.0]


def test_the_c_library_of_this_machine_can_be_asked() -> None:
    now_s = 0.0
    memory = MemoryTrim(now_s=lambda: now_s)
    for _ in range(1000):
        memory.used()
    memory.tick()
