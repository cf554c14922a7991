import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { createAnswerJudge, type LiveAnswer } from "./judge-answer.ts";

const { judge } = createAnswerJudge(JSON.parse(readFileSync("docs/openapi/platform.json", "utf8")));
const workspace = {
  id: "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
  name: "Research",
  planId: "team",
  personal: false,
  role: "owner",
};
const listed: LiveAnswer = {
  method: "GET",
  path: "/api/v1/workspaces",
  status: 200,
  contentType: "application/json; charset=utf-8",
  requestId: "req_1",
  text: JSON.stringify({ workspaces: [workspace], nextCursor: null }),
};
const problem = { type: "/docs/errors#NOT_FOUND", title: "x", status: 404, detail: "x", requestId: "req_1" };
const missing = {
  ...listed,
  path: `/api/v1/workspaces/${workspace.id}`,
  status: 404,
  contentType: "application/problem+json",
};

test("accepts a response that matches its OpenAPI description", () => {
  expect(judge(listed)).toEqual([]);
  expect(judge({ ...missing, text: JSON.stringify({ ...problem, code: "NOT_FOUND" }) })).toEqual([]);
});

test.each<[string, LiveAnswer]>([
  [
    "an unknown property",
    { ...listed, text: JSON.stringify({ workspaces: [{ ...workspace, secret: "x" }], nextCursor: null }) },
  ],
  [
    "a missing property",
    { ...listed, text: JSON.stringify({ workspaces: [{ ...workspace, role: undefined }], nextCursor: null }) },
  ],
  ["a value of the wrong type", { ...listed, text: JSON.stringify({ workspaces: null }) }],
  ["an invalid id", { ...listed, text: JSON.stringify({ workspaces: [{ ...workspace, id: "1" }], nextCursor: null }) }],
  [
    "a time that is not in UTC with Z",
    {
      ...listed,
      text: JSON.stringify({ workspaces: [{ ...workspace, name: "2026-01-01T00:00:00.5+00:00" }], nextCursor: null }),
    },
  ],
  ["an undocumented status", { ...listed, status: 418 }],
  ["an undocumented content type", { ...listed, contentType: "text/html" }],
  ["no request id", { ...listed, requestId: null }],
  ["an undocumented path", { ...listed, path: "/api/v1/none" }],
  [
    "an error code that belongs to another status",
    { ...missing, text: JSON.stringify({ ...problem, code: "INTERNAL" }) },
  ],
])("rejects a response with %s", (_, answer) => {
  expect(judge(answer)).not.toEqual([]);
});
