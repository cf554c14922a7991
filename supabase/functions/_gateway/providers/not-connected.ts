/**
 * No connection was established because the name, the address or the handshake failed. No part of the request was sent.
 */
export class NotConnected extends Error {}
