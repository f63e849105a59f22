"""``python -m deviceshare_cli`` is the command ``deviceshare``."""

from deviceshare_cli.main import main

main()
