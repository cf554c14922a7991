import Bowser from "bowser";

/** Bowser also returns names that it takes from the user agent. Only the names in this set are its own. */
const browsers = new Set(Object.values(Bowser.BROWSER_MAP));
/** HTTP clients, by the start of their user agents. */
const clients = ["curl", "Wget", "node", "Deno", "Bun", "okhttp", "Dart", "python-requests", "Go-http-client"];

/**
 * Returns the browser and system of a user agent without versions: "Chrome on macOS". Every word comes from a closed
 * list, so that a requester cannot choose the text that people see when they decide whether to approve a request.
 * @param userAgent at most 512 characters
 */
export function deviceName(userAgent: string): string {
  if (userAgent === "") return "Unknown device";
  const { browser, os } = Bowser.parse(userAgent);
  const client = clients.find((name) => userAgent === name || userAgent.startsWith(`${name}/`));
  const program = client ?? (browser.name && browsers.has(browser.name) ? browser.name : "Unknown browser");
  return os.name ? `${program} on ${os.name}` : program;
}
