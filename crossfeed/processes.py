"""What child processes owe their parent."""

import os
import threading
import time


def end_with_parent() -> None:
    """Stop when the process that started this one is gone, so that no orphan writes beside its successor."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
