/**
 * No connection was established, because of the name, the address or the handshake. Nothing of the request was sent.
 */
export class NotConnected extends Error {}
