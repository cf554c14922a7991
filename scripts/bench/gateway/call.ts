import { z } from "zod";

/** What a load process is told to ask: one call, by each of the credentials in turn. */
export const callSchema = z.object({
  url: z.url(),
  headers: z.record(z.string(), z.string()),
  /** Values of the Authorization header. */
  authorizations: z.array(z.string()).min(1),
});

export type Call = z.infer<typeof callSchema>;

const messages = [
  { role: "system", content: "Answer in one short sentence." },
  { role: "user", content: "What does a gatehouse guard?" },
];

/** The body of each call that asks for a whole answer. */
export const wholeBody: string = JSON.stringify({ model: "demo-chat", messages, max_tokens: 64 });

/** The body of a call that asks for a stream. @param name by which the upstream remembers it */
export function streamBody(name: string): string {
  return JSON.stringify({
    model: "demo-chat",
    messages: [...messages, { role: "user", content: name }],
    max_tokens: 400,
    stream: true,
  });
}
