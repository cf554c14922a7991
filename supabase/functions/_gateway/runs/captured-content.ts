import type { Run } from "../database.ts";
import type { Gateway } from "../gateway.ts";

/** A call of a server tool, with the model's arguments and the tool's result. */
export type ToolUse = { name: string; arguments: string; result: string };

/** Collects the content of a run, if its workspace captures content. */
export type CapturedContent = {
  /**
   * Stores the raw request body, of at most `maxKept` bytes, as the prompt.
   * @returns a promise that resolves when it is stored, or undefined if content isn't captured
   */
  notePrompt: (body: Uint8Array) => Promise<void> | undefined;
  noteTool: (use: ToolUse) => void;
  /** Stores the content and then calls `then`. Calls `then` immediately if nothing is captured. */
  keepAnswer: (answer: () => string | undefined, then: () => void) => void;
};

/**
 * The maximum size of a stored prompt, in bytes, and of a stored answer or record of tool use, in characters. Anything
 * larger is not stored.
 */
export const maxKept = 1024 * 1024;

/** Captures the content of a run if the workspace's policy enables it. Otherwise ignores the content. */
export function captureContent(
  { database, settlements, waitUntil, report }: Pick<Gateway, "database" | "settlements" | "waitUntil" | "report">,
  run: Run,
): CapturedContent {
  const { capture, created_at, run_id: id } = run;
  const tools: ToolUse[] = [];
  if (!capture) return { notePrompt: () => undefined, noteTool() {}, keepAnswer: (_, then) => then() };

  const keep = (content: { prompt?: string; tools?: string; answer?: string }) =>
    database.storeRunContent({ created_at, id, ...content }).catch((error) => report(error));

  return {
    notePrompt(body) {
      const storing = keep({ prompt: new TextDecoder().decode(body) });
      waitUntil(storing);
      return storing;
    },
    noteTool(use) {
      tools.push(use);
    },
    keepAnswer(answer, then) {
      const used = tools.length > 0 ? JSON.stringify(tools) : undefined;
      const content = { tools: withinLimit(used), answer: withinLimit(answer()) };
      if (content.tools === undefined && content.answer === undefined) return then();
      // The run may end only after its answer is stored, so that a repeated call can replay it.
      const kept = keep(content).finally(then);
      settlements.awaitOutcome(kept);
      waitUntil(kept);
    },
  };
}

function withinLimit(text: string | undefined): string | undefined {
  return text !== undefined && text.length <= maxKept ? text : undefined;
}
