import { z } from "zod";

/** The request that a load process sends, with each of the credentials in turn, if any. It posts a chat by default. */
export const callSchema = z.object({
  url: z.url(),
  method: z.enum(["GET", "POST"]).optional(),
  headers: z.record(z.string(), z.string()),
  authorizations: z.array(z.string()),
  /** The fields to post in place of a chat. */
  form: z.record(z.string(), z.string()).optional(),
});

export type Call = z.infer<typeof callSchema>;

const messages = [
  { role: "system", content: "Answer in one short sentence." },
  { role: "user", content: "What does a gatehouse guard?" },
];

/** The body of each non-streaming call. */
export const wholeBody: string = JSON.stringify({ model: "demo-chat", messages, max_tokens: 64 });

/**
 * Returns the body of a streaming call.
 * @param name identifies the stream in the upstream's records
 */
export function streamBody(name: string): string {
  return JSON.stringify({
    model: "demo-chat",
    messages: [...messages, { role: "user", content: name }],
    max_tokens: 400,
    stream: true,
  });
}
