import { CodeBlock } from "./code-block.tsx";

/** Shows how to call the gateway: its URL, and snippets that read the key from the environment. */
export function GatewayGuide({ baseUrl }: { baseUrl: string }) {
  return (
    <div className="space-y-4">
      <CodeBlock wrap label="Base URL" code={baseUrl} />
      <CodeBlock
        wrap
        label="List models with curl"
        code={`curl ${baseUrl}/models \\\n  -H "Authorization: Bearer $GATEHOUSE_API_KEY"`}
      />
      <CodeBlock
        wrap
        label="Chat with TypeScript"
        code={`import OpenAI from "openai";

// Set an API key, and a model ID from the command above.
const apiKey = process.env.GATEHOUSE_API_KEY;
const model = process.env.GATEHOUSE_MODEL ?? "";

const client = new OpenAI({
  baseURL: "${baseUrl}",
  apiKey,
});
const answer = await client.chat.completions.create({
  model,
  messages: [{ role: "user", content: "Hello" }],
});
console.log(answer.choices[0].message.content);`}
      />
    </div>
  );
}
