"""Limits how many clients are connected: at the limit, some give way to others.

Those that have not logged in yet, or where nobody has to, have not sent a request, are strangers: an eighth of the
places is theirs at least, so that a client always finds one, and the oldest of them gives way to the next. The others
give way where they are more than the rest: the one that has waited longest for its client to send something. Both are
taken from the address that has most of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

_SHARE_OF_STRANGERS = 8


@dataclass(slots=True, eq=False)
class Client:
    """One connection."""

    address: str
    end: Callable[[], object]
    """Ends the connection at once."""
    is_known: bool = False
    """Whether the client is no stranger."""
    is_idle: bool = False
    has_left: bool = False


_ByAddress = dict[str, OrderedDict[Client, None]]


@dataclass(slots=True)
class Admission:
    """The clients that are connected, and their limit."""

    most: int
    """How many clients may be connected."""
    _strangers: _ByAddress = field(default_factory=_ByAddress)
    _idle: _ByAddress = field(default_factory=_ByAddress)
    """Known clients that wait, those that have waited longest first."""
    _count: int = 0
    _known: int = 0

    @property
    def count(self) -> int:
        """How many clients are connected."""
        return self._count

    @property
    def most_known(self) -> int:
        return max(1, self.most - max(1, self.most // _SHARE_OF_STRANGERS))

    def admit(self, client: Client) -> None:
        """Take a client; where there are too many, another one ends, or this one where all others are known."""
        self._count += 1
        _add(self._strangers, client)
        if self._count > self.most:
            self._end_first(self._strangers)

    def know(self, client: Client) -> None:
        """Count a client among those that are known."""
        if client.is_known or client.has_left:
            return
        client.is_known = True
        self._known += 1
        _remove(self._strangers, client)
        if self._known > self.most_known and not self._end_first(self._idle):
            self._give_way(client)

    def wait(self, client: Client) -> None:
        """Remember that a client is to send something."""
        if client.is_known and not client.has_left:
            client.is_idle = True
            _add(self._idle, client)

    def answer(self, client: Client) -> None:
        """Remember that a client is being answered, and so does not give way."""
        if client.is_idle:
            client.is_idle = False
            _remove(self._idle, client)

    def make_room(self) -> bool:
        """End a client, as there are no more descriptors; return whether any could give way."""
        return self._end_first(self._strangers) or self._end_first(self._idle)

    def _end_first(self, among: _ByAddress) -> bool:
        if not among:
            return False
        address = max(among, key=lambda each: len(among[each]))
        self._give_way(next(iter(among[address])))
        return True

    def _give_way(self, client: Client) -> None:
        self.leave(client)
        client.end()

    def leave(self, client: Client) -> None:
        """Forget a client whose connection is closed, or is to be."""
        if client.has_left:
            return
        client.has_left = True
        self._count -= 1
        if client.is_known:
            self._known -= 1
            if client.is_idle:
                _remove(self._idle, client)
        else:
            _remove(self._strangers, client)


def _add(to: _ByAddress, client: Client) -> None:
    to.setdefault(client.address, OrderedDict())[client] = None


def _remove(of: _ByAddress, client: Client) -> None:
    own = of[client.address]
    del own[client]
    if not own:
        del of[client.address]
