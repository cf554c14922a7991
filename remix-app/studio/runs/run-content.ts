import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { type MemberReader, readStudio } from "../studio-reader.ts";
import { type KeptContent, readSaid, type Said } from "./said.ts";

const none = z.object({ outcome: z.literal("none") });
const described = z.object({
  outcome: z.literal("kept"),
  deletedFrom: z.string(),
});
export type KeptContentFacts = z.output<typeof described>;
const opened = z.object({
  outcome: z.literal("opened"),
  deletedFrom: z.string(),
  prompt: z.string().nullable(),
  tools: z.string().nullable(),
  answer: z.string().nullable(),
});

/** What was said in a run, to be shown. */
export type OpenedContent = { deletedFrom: string } & Record<keyof KeptContent, Said[]>;

/**
 * Whether what was said in a run is kept, and until when; not a word of it. For those who may choose that it is kept.
 * @returns null where nothing is kept, or by now no more
 * @throws Response 403, 503 as readStudio
 */
export async function describeRunContent(
  context: AppLoadContext,
  { reader, runId }: { reader: MemberReader; runId: string },
): Promise<KeptContentFacts | null> {
  const answer = await readStudio(context, {
    reader,
    name: "describe_run_content",
    args: { run_id: runId },
    schema: z.union([described, none]),
  });
  return answer.outcome === "kept" ? answer : null;
}

/**
 * What was said in a run. The reading is written into the workspace's log, which its owners see.
 * @returns null as {@link describeRunContent}
 * @throws Response 403, 503 as readStudio
 */
export async function openRunContent(
  context: AppLoadContext,
  { reader, runId }: { reader: MemberReader; runId: string },
): Promise<OpenedContent | null> {
  const answer = await readStudio(context, {
    reader,
    name: "read_run_content",
    args: { run_id: runId },
    schema: z.union([opened, none]),
  });
  return answer.outcome === "opened" ? { deletedFrom: answer.deletedFrom, ...readSaid(answer) } : null;
}
