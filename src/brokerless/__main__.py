"""``python -m brokerless``."""

from __future__ import annotations

import sys

from brokerless.cli import main

sys.exit(main())
