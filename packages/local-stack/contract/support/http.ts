import { expect } from "vitest";
import { target } from "./target.ts";

const codesVersion = "2024-01-01";

export type CallOptions = {
  body?: unknown;
  /** Sent as it is, instead of a JSON body. */
  rawBody?: BodyInit;
  bearer?: string | undefined;
  headers?: Record<string, string>;
  /** X-Supabase-Api-Version; null omits the header. */
  version?: string | null;
  /** The server's base URL. Defaults to the server under test. */
  url?: string;
};

// biome-ignore lint/suspicious/noExplicitAny: the server under test defines bodies; tests assert their fields
export type Answer = { status: number; headers: Headers; body: any; text: string; location: string };

/** Sends one request without following redirects. `route` is a method and a path: `POST /signup`. */
export async function call(route: string, options: CallOptions = {}): Promise<Answer> {
  const [method = "GET", path = "/"] = route.split(" ");
  const version = options.version === undefined ? codesVersion : options.version;
  const response = await fetch(`${options.url ?? target.url}${path}`, {
    method,
    redirect: "manual",
    headers: {
      ...(version ? { "X-Supabase-Api-Version": version } : {}),
      ...(options.bearer ? { Authorization: `Bearer ${options.bearer}` } : {}),
      ...(options.body === undefined ? {} : { "Content-Type": "application/json" }),
      ...options.headers,
    },
    ...(options.rawBody !== undefined ? { body: options.rawBody } : {}),
    ...(options.body !== undefined ? { body: JSON.stringify(options.body) } : {}),
  });
  const text = await response.text();
  const isJson = response.headers.get("content-type")?.startsWith("application/json");
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: isJson && text ? JSON.parse(text) : undefined,
    location: response.headers.get("location") ?? "",
  };
}

/** Sends a request as an administrator. */
export function admin(route: string, options: CallOptions = {}): Promise<Answer> {
  return call(route, { bearer: target.serviceKey, ...options });
}

/** Asserts an error response in the shape of API version 2024-01-01. */
export function expectRefusal(answer: Answer, status: number, code: string): void {
  expect({ status: answer.status, code: answer.body?.code }, answer.text).toEqual({ status, code });
  expect(answer.body.message).toEqual(expect.any(String));
}

/** Asserts a successful response. @returns its body */
export function expectOk(answer: Answer, status = 200) {
  expect(answer.status, answer.text).toBe(status);
  return answer.body;
}
