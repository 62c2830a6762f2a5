"""The notices: what a user is told of a run that waits."""

import datetime as dt


def slow_down(pause_s: float, asked_s: float) -> str:
    """Return that all wait for *pause_s*, where the server asks for *asked_s*."""
    asked = "" if pause_s == asked_s else f" (it says until {at(asked_s)})"
    return f"the server asks to slow down: waiting until {at(pause_s)}{asked}"


def down(since_s: float, left_s: float, error: Exception) -> str:
    """Return that the server is down since *since_s* ago and waited for *left_s*."""
    return (
        f"the server is down since {at(-since_s)}, waiting until {at(left_s)} for it "
        f"(--wait-for-server): {error}"
    )


def waiting_for(since_s: float, left_s: float) -> str:
    """Return the same in few words, for a display."""
    return f"server down since {at(since_s)}, waiting to {at(left_s)}"


def slowed_down(pause_s: float) -> str:
    """Return that all wait for *pause_s*, in few words."""
    return f"rate limited until {at(pause_s)}"


def gone(waited_s: float, error: Exception) -> str:
    """Return that the server was waited for in vain."""
    return (
        f"the server went down and did not come back in {waited_s:.0f} s "
        f"(--wait-for-server): {error}"
    )


def shut_out(waited_s: float, hint_s: float | None, error: Exception) -> str:
    """Return that the server answered nobody for want of a quota."""
    until = f"; it asks to wait until {at(hint_s)}" if hint_s else ""
    return f"the server has let no request in for {waited_s:.0f} s{until}: {error}"


def at(seconds: float) -> str:
    """Return the time of day in *seconds* from now, with the date if it is another."""
    now = dt.datetime.now().astimezone()
    then = now + dt.timedelta(seconds=seconds)
    same = then.date() == now.date()
    return then.strftime("%H:%M:%S" if same else "%Y-%m-%d %H:%M")
