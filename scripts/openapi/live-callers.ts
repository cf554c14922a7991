import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { basicAuthorization } from "../../remix-app/http/authorization.ts";
import type { Browser } from "../../remix-app/testing/browser.ts";
import { visitorHeaders } from "../../remix-app/testing/visitor.ts";
import type { TestApp } from "../test/apps.ts";
import { readStack } from "../test/stack.ts";
import { createAnswerJudge, type LiveAnswer } from "./judge-answer.ts";

const { base, ai, satellites } = readStack();
const read = (name: string) => JSON.parse(readFileSync(`docs/openapi/${name}.json`, "utf8")) as object;
const judges = { platform: createAnswerJudge(read("platform")), gateway: createAnswerJudge(read("gateway")) };

/** Sends a request as one caller. */
type Send = (method: string, path: string, body?: unknown) => Promise<LiveAnswer>;

/**
 * `faults` lists mismatches between responses and the documents. `answered` holds the statuses that each operation has
 * returned so far.
 */
export const faults: string[] = [];
export const answered = new Map<string, Set<number>>();

/** Records a response. @returns its JSON, if any */
function noted(area: keyof typeof judges, answer: LiveAnswer): never {
  const judge = judges[area];
  const id = `${area}.${judge.operationOf(answer)?.operationId}`;
  answered.set(id, new Set([...(answered.get(id) ?? []), answer.status]));
  faults.push(...judge.judge(answer).map((fault) => `${fault}: ${answer.text.slice(0, 400)}`));
  return (answer.contentType?.includes("json") && answer.text ? JSON.parse(answer.text) : answer.text) as never;
}

function over(origin: string, headers: Record<string, string>): Send {
  return async (method, path, body) => {
    const response = await fetch(`${origin}${path}`, {
      method,
      redirect: "manual",
      headers: {
        ...visitorHeaders(),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    return answerOf(method, path, response.status, { headers: response.headers, text: await response.text() });
  };
}

function answerOf(
  method: string,
  path: string,
  status: number,
  { headers, text }: { headers: Headers; text: string },
): LiveAnswer {
  const bare = path.split("?")[0] ?? path;
  const contentType = headers.get("content-type");
  return { method, path: bare, status, contentType, requestId: headers.get("x-request-id"), text };
}

const checked =
  (area: keyof typeof judges, send: Send) =>
  async <Body = Record<string, never>>(method: string, path: string, body?: unknown): Promise<Body> =>
    noted(area, await send(method, path, body));

/** Callers of the platform's API. Each response is checked against the document. */
export const anonymous = checked("platform", over(base, {}));
export const bearerOf = (token: string) => checked("platform", over(base, { authorization: `Bearer ${token}` }));
/** An infrastructure admin or a service account, who sends a new idempotency key with each change of the console. */
export const adminOf = (token: string) =>
  checked("platform", (method, path, body) =>
    over(base, { authorization: `Bearer ${token}`, "idempotency-key": randomUUID() })(method, path, body),
  );
export const serverOf = (app: Pick<TestApp, "name" | "secret">) =>
  checked("platform", over(base, { authorization: basicAuthorization(app) }));
export const onSatellite = checked("platform", over(satellites[0]?.url.replace(/\/$/, "") ?? "", {}));
export const browserOf = (browser: Browser) =>
  checked("platform", async (method, path, body) => {
    const { status, headers, text } = await browser.sendJson(method, path, body);
    return answerOf(method, path, status, { headers, text });
  });

/** Returns a function that calls the gateway. Each response is checked against the document. */
export const gatewayOf = (key: string | undefined, headers: Record<string, string> = {}) =>
  checked("gateway", over(ai, { ...(key ? { authorization: `Bearer ${key}` } : {}), ...headers }));
