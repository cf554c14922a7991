// The fragment holds the secret of a code that a phone should have read: it has no business in a browser's history.
if (location.hash) history.replaceState(null, "", location.pathname);
