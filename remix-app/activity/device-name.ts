import Bowser from "bowser";

/**
 * The browser and system that a user agent names, in words and without versions: "Chrome on macOS". For people to
 * recognise; a program says of itself what it likes.
 * @param userAgent at most 512 characters of it
 */
export function deviceName(userAgent: string): string {
  if (userAgent === "") return "Unknown device";
  const { browser, os } = Bowser.parse(userAgent);
  // What is no browser begins with its own name, as "curl/8.5.0" does.
  const program = browser.name || /^[A-Za-z][\w .-]{1,39}(?=\/|$)/.exec(userAgent)?.[0] || "Unknown browser";
  return (os.name ? `${program} on ${os.name}` : program).slice(0, 100);
}
