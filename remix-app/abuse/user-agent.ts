/**
 * Programs that only ever come to attack, by the names that they give themselves unless told otherwise. Who hides the
 * name passes: this spares the limits the noise of tools run as they come, and is no defence by itself.
 */
const attackTools = [
  // SQL injection.
  "sqlmap",
  "havij",
  // Vulnerability scanners.
  "nikto",
  "nuclei",
  "wpscan",
  "acunetix",
  "nessus",
  "openvas",
  "w3af",
  "arachni",
  "jaeles",
  // Finders of hidden paths.
  "dirbuster",
  "gobuster",
  "feroxbuster",
  "ffuf",
  "wfuzz",
  // Scanners of whole networks.
  "masscan",
  "zgrab",
  "nmap scripting engine",
  // Guessers of passwords.
  "(hydra)",
  "patator",
  "openbullet",
  "sentry mba",
];

/** Whether a credential may not be tried by this program: it has no name, or that of an attack tool. */
export function isSuspiciousUserAgent(userAgent: string): boolean {
  const name = userAgent.trim().toLowerCase();
  return name === "" || attackTools.some((tool) => name.includes(tool));
}
