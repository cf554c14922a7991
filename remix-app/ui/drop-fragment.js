// The fragment contains the secret of a code that a phone should have read. It must not stay in the browser's history.
if (location.hash) history.replaceState(null, "", location.pathname);
