from __future__ import annotations

from brokerless.serving.admission import Admission, Client


class Clients:
    """Clients of an admission, by numbers; ``ended``: those that gave way, in their order."""

    def __init__(self, most: int) -> None:
        self.admission = Admission(most)
        self.ended: list[int] = []
        self.all: list[Client] = []

    def come(self, address: str = "a") -> Client:
        number = len(self.all)
        client = Client(address, lambda: self.ended.append(number))
        self.all.append(client)
        self.admission.admit(client)
        return client

    def come_to_stay(self, address: str = "a") -> Client:
        client = self.come(address)
        self.admission.know(client)
        self.admission.wait(client)
        return client


def test_the_oldest_stranger_gives_way() -> None:
    clients = Clients(8)
    for _ in range(10):
        clients.come()
    assert clients.ended == [0, 1]
    assert clients.admission.count == 8


def test_strangers_of_the_address_that_has_most_give_way() -> None:
    clients = Clients(8)
    clients.come("honest")
    for _ in range(20):
        clients.come("many")
    assert 0 not in clients.ended
    assert clients.admission.count == 8


def test_who_is_known_leaves_places_for_strangers() -> None:
    clients = Clients(16)
    for _ in range(20):
        clients.come_to_stay()
    assert clients.ended == [0, 1, 2, 3, 4, 5]
    clients.come()
    clients.come()
    assert clients.ended == [0, 1, 2, 3, 4, 5]
    clients.come()
    assert clients.ended[6:] == [20]


def test_who_is_answered_does_not_give_way() -> None:
    clients = Clients(8)
    busy = clients.come_to_stay()
    clients.admission.answer(busy)
    for _ in range(8):
        clients.come_to_stay()
    assert 0 not in clients.ended


def test_who_comes_when_all_are_answered_is_refused() -> None:
    clients = Clients(8)
    for _ in range(7):
        clients.admission.answer(clients.come_to_stay())
    clients.come_to_stay()
    assert clients.ended == [7]


def test_places_are_free_again() -> None:
    clients = Clients(2)
    for _ in range(3):
        each = clients.come_to_stay()
        clients.admission.leave(each)
        clients.admission.leave(each)
    clients.admission.leave(clients.come())
    assert clients.admission.count == 0
    assert clients.ended == []
    assert not clients.admission.make_room()
