/** What a line is about, with the name that each format gives it. */
const idNames = {
  requestId: { text: "request", json: "request_id" },
  mail: { text: "mail", json: "mail_id" },
  logout: { text: "logout", json: "logout_id" },
  app: { text: "app", json: "app" },
  task: { text: "task", json: "task" },
} as const;
const levelWords = { info: "", warn: "warning", error: "error" } as const;

export type LogLevel = keyof typeof levelWords;
export type LogFormat = "text" | "json";
type LogIds = { [Name in keyof typeof idNames]?: string | null };

let format: LogFormat = "text";

/** Sets the format of this process's log. */
export function setLogFormat(chosen: LogFormat): void {
  format = chosen;
}

/**
 * Returns a line of the JSON log, which the web server and the gateway share: `time`, `level` and `event` first, then
 * the event's own members. Members that are undefined are left out.
 */
export function formatJsonLine(level: LogLevel, event: string, members: Record<string, unknown>): string {
  return JSON.stringify({ time: new Date().toISOString(), level, event, ...members });
}

/** Logs a failure that the server caused or met. Never pass a secret, a query, a header or a text from a caller. */
export function logError(message: string, ids: LogIds = {}): void {
  console.error(formatMessage("error", message, ids));
}

/** Logs something that an operator should know and that the server continues after. */
export function logWarning(message: string, ids: LogIds = {}): void {
  console.error(formatMessage("warn", message, ids));
}

export function logInfo(message: string, ids: LogIds = {}): void {
  console.log(formatMessage("info", message, ids));
}

/** Logs an event with a text of its own, such as a request. */
export function logEvent(
  { level, event, members }: { level: LogLevel; event: string; members: Record<string, unknown> },
  formatText: () => string,
): void {
  console.log(format === "json" ? formatJsonLine(level, event, members) : formatText());
}

function formatMessage(level: LogLevel, message: string, ids: LogIds): string {
  const names = (Object.keys(idNames) as (keyof typeof idNames)[]).filter((name) => ids[name] !== undefined);
  if (format === "json") {
    const members = Object.fromEntries(names.map((name) => [idNames[name].json, ids[name]]));
    return formatJsonLine(level, "message", { ...members, message });
  }
  return [levelWords[level], ...names.map((name) => `${idNames[name].text}=${ids[name]}`), message]
    .filter((part) => part !== "")
    .join(" ");
}
