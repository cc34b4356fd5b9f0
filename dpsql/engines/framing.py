"""The frame of a message between the engine and its worker: a length, then a pickle."""

from __future__ import annotations

import struct

LENGTH = struct.Struct("!Q")
