/** No connection came about, by whatever it failed: a name, an address, a handshake. Nothing of the request was sent. */
export class NotConnected extends Error {}
