"""The portal: studies in a browser, served from the installed package alone.

One process answers: pages are made on the server and work without JavaScript where they can; what
is asked of the database goes through the query room, what is drawn comes from the show room.
"""
