import type { Run } from "../database.ts";
import type { Gateway } from "../gateway.ts";

/** A call of a server tool: the model's arguments, and the tool's result. */
export type ToolUse = { name: string; arguments: string; result: string };

/** The content of a run, as far as its workspace captures it. */
export type CapturedContent = {
  /** Takes the request's body, unchanged. */
  notePrompt: (body: Uint8Array) => void;
  noteTool: (use: ToolUse) => void;
  /** Stores the content, then calls `then`; calls it at once if nothing is captured. */
  keepAnswer: (answer: () => string | undefined, then: () => void) => void;
};

/**
 * The maximum size of a stored prompt, answer or record of tool use, in bytes or characters. Anything larger is not
 * stored.
 */
export const maxKept = 1024 * 1024;

/** Captures a run's content if the workspace's policy enables that; otherwise does nothing. */
export function captureContent(
  { database, settlements, waitUntil, report }: Pick<Gateway, "database" | "settlements" | "waitUntil" | "report">,
  run: Run,
): CapturedContent {
  const { capture, created_at, run_id: id } = run;
  const tools: ToolUse[] = [];
  if (!capture) return { notePrompt() {}, noteTool() {}, keepAnswer: (_, then) => then() };

  const keep = (content: { prompt?: string; tools?: string; answer?: string }) =>
    database.storeRunContent({ created_at, id, ...content }).catch((error) => report(error));

  return {
    notePrompt(body) {
      if (body.byteLength <= maxKept) waitUntil(keep({ prompt: new TextDecoder().decode(body) }));
    },
    noteTool(use) {
      tools.push(use);
    },
    keepAnswer(answer, then) {
      const used = tools.length > 0 ? JSON.stringify(tools) : undefined;
      const content = { tools: withinLimit(used), answer: withinLimit(answer()) };
      if (content.tools === undefined && content.answer === undefined) return then();
      // Once the run has ended, its answer must be available for replay.
      const kept = keep(content).finally(then);
      settlements.awaitOutcome(kept);
      waitUntil(kept);
    },
  };
}

function withinLimit(text: string | undefined): string | undefined {
  return text !== undefined && text.length <= maxKept ? text : undefined;
}
