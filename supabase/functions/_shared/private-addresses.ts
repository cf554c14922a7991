import { BlockList, isIP } from "node:net";

/**
 * Networks outside the public internet (IANA's special-purpose registries), and the clouds' metadata services:
 * 169.254.169.254, fd00:ec2::254, 100.100.100.200, 192.0.0.192 and Azure's 168.63.129.16.
 */
const privateNetworks = new BlockList();
for (const [network, prefix] of [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["168.63.129.16", 32],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["224.0.0.0", 3],
] as const) {
  privateNetworks.addSubnet(network, prefix, "ipv4");
}
for (const [network, prefix] of [
  ["::", 96],
  // The networks up to 2002::/16 contain translated or tunnelled IPv4 addresses.
  ["::ffff:0:0:0", 96],
  ["2001::", 32],
  ["64:ff9b::", 96],
  ["64:ff9b:1::", 48],
  ["2002::", 16],
  ["fc00::", 7],
  ["fe80::", 10],
  ["fec0::", 10],
  ["ff00::", 8],
] as const) {
  privateNetworks.addSubnet(network, prefix, "ipv6");
}

/** Matches names that no public name server resolves or that refer to the local machine. */
const privateName = /(^|\.)(localhost|local|internal|intranet|lan|home|corp|home\.arpa)\.?$|^[^.]+\.?$/;

/**
 * Returns whether an IP address is private, loopback, link-local or a metadata service. The address has no brackets.
 */
export function isPrivateAddress(address: string): boolean {
  const family = isIP(address);
  return family !== 0 && privateNetworks.check(address, family === 4 ? "ipv4" : "ipv6");
}

/** Returns whether a URL's host is private, judged by its text: a private address, or a name that is never public. */
export function isPrivateHost(hostname: string): boolean {
  const address = hostname.replace(/^\[|\]$/g, "");
  return isIP(address) ? isPrivateAddress(address) : privateName.test(hostname);
}
