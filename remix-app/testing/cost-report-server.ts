import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";

/** An answer of a provider: a page as JSON text, a status with headers, or a connection that hangs or breaks off. */
export type ReportAnswer =
  | string
  | { status: number; headers?: Record<string, string> }
  | { hangs: true }
  | { truncated: string };

/** Starts a server that answers each request of a cost report with the next answer, and repeats the last one. */
export async function startReportServer(answers: ReportAnswer[] = []) {
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "", "http://report.test");
    state.requests.push({ url, headers: request.headers });
    const answer = (state.answers.length > 1 ? state.answers.shift() : state.answers[0]) ?? "{}";
    if (state.date === null) response.sendDate = false;
    else response.setHeader("date", state.date.toUTCString());
    response.setHeader("x-request-id", "req_1");
    if (typeof answer === "string") response.end(answer);
    else if ("status" in answer) response.writeHead(answer.status, answer.headers).end("a text of the provider's");
    else if ("truncated" in answer) {
      response.writeHead(200, { "content-length": answer.truncated.length + 10 }).write(answer.truncated);
      setTimeout(() => response.destroy(), 20);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const state = {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    answers,
    /** The server's clock. */
    date: new Date() as Date | null,
    requests: [] as { url: URL; headers: IncomingHttpHeaders }[],
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
  return state;
}

/** A page in OpenAI's format, with an amount in USD, several amounts, or none for each day. */
export function openAiPage(
  days: [day: string, amounts: string, project?: string][],
  { next = null, more = next !== null }: { next?: string | null; more?: boolean } = {},
): string {
  const buckets = days.map(([day, amounts, project = "proj_1"]) => {
    const results = amounts
      .split(",")
      .filter((amount) => amount !== "")
      .map(
        (value) =>
          `{"object":"organization.costs.result","amount":{"value":${value},"currency":"usd"},"line_item":"gpt-4o, input","project_id":"${project}"}`,
      );
    const start = Date.parse(day) / 1_000;
    return `{"object":"bucket","start_time":${start},"end_time":${start + 86_400},"results":[${results}]}`;
  });
  return `{"object":"page","data":[${buckets}],"has_more":${more},"next_page":${JSON.stringify(next)}}`;
}
