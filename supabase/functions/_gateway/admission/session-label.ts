import { isLabel } from "../../_shared/labels.ts";

type Agent = { name: string; header: string; userAgent?: RegExp };

/** The headers in which coding agents name their session, in the order they are tried. */
const agents: readonly Agent[] = [
  // https://code.claude.com/docs/en/llm-gateway
  { name: "claude-code", header: "x-claude-code-session-id" },
  // codex-rs/codex-api/src/requests/headers.rs of github.com/openai/codex: older versions use the second spelling.
  { name: "codex", header: "session-id", userAgent: /^codex/i },
  { name: "codex", header: "session_id", userAgent: /^codex/i },
  // packages/opencode/src/session/llm/request.ts of github.com/sst/opencode
  { name: "opencode", header: "x-opencode-session" },
  { name: "opencode", header: "x-session-affinity", userAgent: /\bopencode\// },
];

/**
 * Returns the label that groups the calls of one agent session: the agent and its session id, never the user.
 * @param bodyLabel the label from the body, such as `claude-code:<session id>`; used if no header names a session
 */
export function readSessionLabel(headers: Headers, bodyLabel?: string): string | undefined {
  const userAgent = headers.get("user-agent") ?? "";
  const headerLabels = agents.flatMap(({ name, header, userAgent: pattern }) => {
    const id = headers.get(header);
    return id && (pattern?.test(userAgent) ?? true) ? [`${name}:${id}`] : [];
  });
  return [...headerLabels, bodyLabel ?? ""].find(isLabel);
}

/**
 * Matches the session in Claude Code's `metadata.user_id`. The field is `user_<hash>_account_<uuid>_session_<uuid>`, or
 * a JSON object since Claude Code 2.1.
 */
const textPattern = /_session_([0-9a-f-]{36})$/;
const jsonPattern = /"session_id"\s*:\s*"([0-9a-f-]{36})"/;

/**
 * Returns the label of the Claude Code session named in `metadata.user_id`. Omits the user, who is also named there.
 */
export function readClaudeCodeSession(userId: string | null | undefined): string | undefined {
  const id = (textPattern.exec(userId ?? "") ?? jsonPattern.exec(userId ?? ""))?.[1];
  return id === undefined ? undefined : `claude-code:${id}`;
}
