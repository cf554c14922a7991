// The fragment contains the secret of a QR code that a phone should have scanned. It must not stay in the browser's
// history.
if (location.hash) history.replaceState(null, "", location.pathname);
