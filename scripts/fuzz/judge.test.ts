import { expect, test } from "vitest";
import { createJudge, type Outcome } from "./judge.ts";

const judge = createJudge(["sb_secret_0123456789", "ttr_ai_anothers_key"]);
const problem = {
  type: "/docs/errors#NOT_FOUND",
  title: "Not found",
  status: 404,
  detail: "The address may be mistyped.",
  code: "NOT_FOUND",
  requestId: "req_1",
};
const error = {
  message: "No.",
  type: "invalid_request_error",
  param: null,
  code: "invalid_request",
  request_id: "req_1",
};
const answered = (status: number, body: unknown, contentType = "application/problem+json") => ({
  status,
  requestId: "req_1",
  contentType,
  text: typeof body === "string" ? body : JSON.stringify(body),
});
const refused: Outcome = { surface: "api", method: "GET", sent: "GET /api/x", answer: answered(404, problem) };
const atGateway: Outcome = {
  surface: "gateway",
  method: "POST",
  sent: "",
  answer: answered(400, { error }, "application/json"),
};

test("the fuzzer's check accepts well-formed refusals, successful responses and pages", () => {
  expect(judge(refused)).toEqual([]);
  expect(judge(atGateway)).toEqual([]);
  const { request_id, ...members } = error;
  const ofMessages = { type: "error", error: members, request_id };
  expect(judge({ ...atGateway, answer: answered(400, ofMessages, "application/json") })).toEqual([]);
  const other = { ...ofMessages, request_id: "req_2" };
  expect(judge({ ...atGateway, answer: answered(400, other, "application/json") })).not.toEqual([]);
  expect(judge({ ...refused, answer: answered(200, {}, "application/json") })).toEqual([]);
  expect(judge({ ...refused, surface: "page", answer: answered(404, "<h1>Not found</h1>", "text/html") })).toEqual([]);
  expect(judge({ ...refused, method: "HEAD", answer: answered(404, "") })).toEqual([]);
});

test("the fuzzer's check does not report text from the request itself as a leak", () => {
  const echoed = answered(404, { ...problem, detail: 'No relation "x", ttr_ai_anothers_key' });
  expect(judge({ ...refused, sent: 'relation " ttr_ai_anothers_key', answer: echoed })).toEqual([]);
});

test.each<[string, Outcome]>([
  ["a hanging request", { ...refused, answer: undefined }],
  ["a 500", { ...refused, answer: answered(500, { ...problem, status: 500, code: "INTERNAL" }) }],
  ["a 503 from a healthy server", { ...atGateway, answer: answered(503, { error }, "application/json") }],
  ["a response without a request id", { ...refused, answer: { ...answered(404, problem), requestId: null } }],
  ["another account's secret", { ...refused, answer: answered(200, { key: "ttr_ai_anothers_key" }) }],
  [
    "the server's own secret on a page",
    { ...refused, surface: "page", answer: answered(200, "<p>sb_secret_0123456789") },
  ],
  ["a stack trace", { ...refused, answer: answered(404, { ...problem, detail: "at load (file.js:1:2)" }) }],
  ["a file path", { ...refused, answer: answered(404, { ...problem, detail: "/home/ada/gatehouse/remix-app" }) }],
  ["SQL", { ...refused, answer: answered(404, { ...problem, detail: 'relation "users" does not exist' }) }],
  ["a table's name", { ...refused, answer: answered(404, { ...problem, detail: "private.app_secrets" }) }],
  ["a refusal that is not a problem document", { ...refused, answer: answered(404, { error: "no" }) }],
  ["a problem document with another status", { ...refused, answer: answered(404, { ...problem, status: 400 }) }],
  ["a problem document for another request", { ...refused, answer: answered(404, { ...problem, requestId: "req_2" }) }],
  ["HTML instead of a problem document", { ...refused, answer: answered(404, "<h1>Not found</h1>", "text/html") }],
  ["an error that is not in OpenAI's format", { ...atGateway, answer: answered(400, { error: { message: "No." } }) }],
])("the fuzzer's check rejects %s", (_, outcome) => {
  expect(judge(outcome)).not.toEqual([]);
});
