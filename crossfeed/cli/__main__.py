from crossfeed.cli import main

main()
