import type { DescribedOperation, Parameter } from "./documents.ts";

/** How a caller proves who it is, by the documents' names of security schemes, as curl's arguments. */
const credentials: Record<string, readonly string[]> = {
  bearer: ['-H "Authorization: Bearer $ACCESS_TOKEN"'],
  userToken: ['-H "Authorization: Bearer $ACCESS_TOKEN"'],
  appSession: ['-H "Authorization: Bearer $CENTRAL_SESSION"'],
  app: ['-u "$APP_NAME:$APP_SECRET"'],
  workspaceKey: ['-H "Authorization: Bearer $GATEHOUSE_API_KEY"'],
  appToken: ['-H "Authorization: Bearer $APP_TOKEN"'],
  session: ['-H "Cookie: $SESSION_COOKIE"', '-H "Sec-Fetch-Site: same-origin"'],
};
/** The one that a command shows, where several would do. */
const preference = ["workspaceKey", "bearer", "app", "session", "appToken", "appSession", "userToken"];

/** A command that makes a call, with secrets taken from the environment and ids of the examples. */
export function curlOf(
  { parameters, requestBody, security }: DescribedOperation,
  { method, url }: { method: string; url: string },
): string {
  const named = security.flatMap((scheme) => Object.keys(scheme));
  const credential = preference.find((name) => named.includes(name));
  const headers = parameters.filter((parameter) => parameter.in === "header" && parameter.required);
  const body = requestBody?.content["application/json"].example;
  return [
    `curl ${method === "GET" ? "" : `-X ${method} `}${quoted(filled(url, parameters))}`,
    ...(credential ? (credentials[credential] ?? []) : []),
    ...headers.map(
      ({ name }) =>
        `-H "${name}: $${name
          .replace(/^X-Platform-/, "")
          .toUpperCase()
          .replaceAll("-", "_")}"`,
    ),
    ...(body === undefined
      ? []
      : ['-H "Content-Type: application/json"', `-d ${quoted(JSON.stringify(body, null, 2))}`]),
  ].join(" \\\n  ");
}

function filled(url: string, parameters: readonly Parameter[]): string {
  return url.replaceAll(/\{(\w+)\}/g, (whole, name) =>
    String(parameters.find((parameter) => parameter.name === name)?.example ?? whole),
  );
}

/** A word for a POSIX shell, as it stands. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
