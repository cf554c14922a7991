import { describe, expect, test } from "vitest";
import { readClaudeCodeSession, readSessionLabel } from "./session-label.ts";

const id = "5f0f9f4e-9d3c-4b0e-8a55-6a1f6f7c2f11";

describe("Sessions of coding agents", () => {
  test.for<[string, Record<string, string>, string]>([
    // https://code.claude.com/docs/en/llm-gateway
    ["Claude Code", { "x-claude-code-session-id": id }, `claude-code:${id}`],
    // codex-rs/codex-api/src/requests/headers.rs of github.com/openai/codex
    ["Codex", { "session-id": id, "user-agent": "codex_exec/0.171.0" }, `codex:${id}`],
    ["an older Codex", { session_id: id, "user-agent": "codex_cli_rs/0.90.0" }, `codex:${id}`],
    // packages/opencode/src/session/llm/request.ts of github.com/sst/opencode
    ["opencode", { "x-session-affinity": "ses_1", "user-agent": "opencode/1.18.33" }, "opencode:ses_1"],
    ["opencode's own provider", { "x-opencode-session": "ses_1" }, "opencode:ses_1"],
  ])("reads an agent's session from the headers of %s", ([, headers, label]) => {
    expect(readSessionLabel(new Headers(headers))).toBe(label);
  });

  test.for<[string, Record<string, string>]>([
    ["another client's header of the same name", { session_id: id, "user-agent": "curl/8" }],
    ["an id with characters that a label does not allow", { "x-claude-code-session-id": "a b" }],
    ["an id that is too long", { "x-claude-code-session-id": "a".repeat(128) }],
  ])("reads no session from %s", ([, headers]) => {
    expect(readSessionLabel(new Headers(headers))).toBeUndefined();
    expect(readSessionLabel(new Headers(headers), "claude-code:x")).toBe("claude-code:x");
  });

  test("reads an agent's session id from a user id that contains one, and drops the rest of the user id", () => {
    expect(readClaudeCodeSession(`user_${"a".repeat(64)}_account_${id}_session_${id}`)).toBe(`claude-code:${id}`);
    expect(readClaudeCodeSession(JSON.stringify({ device_id: "d", account_uuid: "", session_id: id }))).toBe(
      `claude-code:${id}`,
    );
    for (const other of ["ada@example.com", "", null, undefined, `user_a_session_${id}x`]) {
      expect(readClaudeCodeSession(other)).toBeUndefined();
    }
  });
});
