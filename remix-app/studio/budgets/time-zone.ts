/** Time zones that a form proposes. Others can be typed. */
export const commonTimeZones = [
  "UTC",
  "America/Los_Angeles",
  "America/Chicago",
  "America/New_York",
  "America/Sao_Paulo",
  "Europe/London",
  "Europe/Berlin",
  "Asia/Kolkata",
  "Asia/Shanghai",
  "Asia/Tokyo",
  "Australia/Sydney",
];

const namesByLowerCase = new Map(
  [...Intl.supportedValuesOf("timeZone"), ...commonTimeZones].map((name) => [name.toLowerCase(), name]),
);

/**
 * Returns the name of an IANA time zone that was typed in any case, or null if there is none. Keeps names that this
 * runtime knows only as aliases, such as Europe/Kyiv. Offsets such as "+01:00" are not names. The database has the final
 * say.
 */
export function readTimeZone(text: string): string | null {
  const typed = text.trim();
  if (!/^[A-Za-z][A-Za-z0-9+_/-]{0,63}$/.test(typed)) return null;
  try {
    new Intl.DateTimeFormat("en", { timeZone: typed });
  } catch {
    return null;
  }
  return namesByLowerCase.get(typed.toLowerCase()) ?? typed.replace(/\b[a-z]|_[a-z]/g, (start) => start.toUpperCase());
}
