"""crossfeed program"""
