import { Snippet } from "./snippet.tsx";

/** How to call the gateway: its address, and ready snippets that take the key from the environment. */
export function GatewayGuide({ baseUrl }: { baseUrl: string }) {
  return (
    <div className="space-y-4">
      <Snippet label="Base URL" code={baseUrl} />
      <Snippet
        label="curl: which models this key may use"
        code={`curl ${baseUrl}/models \\\n  -H "Authorization: Bearer $GATEHOUSE_API_KEY"`}
      />
      <Snippet
        label="TypeScript: the openai package"
        code={`import OpenAI from "openai";

const client = new OpenAI({
  baseURL: "${baseUrl}",
  apiKey: process.env.GATEHOUSE_API_KEY,
});

const models = await client.models.list();
const answer = await client.chat.completions.create({
  model: models.data[0].id,
  messages: [{ role: "user", content: "Hello" }],
});
console.log(answer.choices[0].message.content);`}
      />
    </div>
  );
}
