import { CodeBlock } from "../../ui/code-block.tsx";
import { Notice } from "../../ui/notice.tsx";
import { ShownOnce } from "../../ui/shown-once.tsx";

/** The fragment that forms which create a key send along, so that the answer is in view. */
export const newKeyFragment = "new-key";

/** Shows a new key's secret and what to do next. No other page shows the secret. */
export function NewSecret({
  name,
  secret,
  model,
  baseUrl,
}: {
  /** The key's name. */
  name: string;
  secret: string;
  /** A model that the key can call. */
  model: string;
  baseUrl: string;
}) {
  return (
    <ShownOnce
      id={newKeyFragment}
      label={`Your new key “${name}”`}
      hasHeading
      className="rounded-card border border-line bg-surface p-4 sm:p-5"
    >
      <Notice tone="warn">
        Copy the key now. We store only its hash, so we can’t show it again. Never put it in browser code or in source
        control.
      </Notice>
      <CodeBlock wrap label="Key" code={secret} />
      <CodeBlock wrap label="Environment variable" code={`export GATEHOUSE_API_KEY='${secret}'`} />
      <CodeBlock
        wrap
        label="curl"
        code={`curl ${baseUrl}/chat/completions \\
  -H "Authorization: Bearer $GATEHOUSE_API_KEY" -H 'Content-Type: application/json' \\
  -d '{"model":"${model}","messages":[{"role":"user","content":"Hello"}]}'`}
      />
      <CodeBlock
        wrap
        label="Python"
        code={`import os
from openai import OpenAI

client = OpenAI(base_url="${baseUrl}", api_key=os.environ["GATEHOUSE_API_KEY"])
answer = client.chat.completions.create(
    model="${model}", messages=[{"role": "user", "content": "Hello"}]
)
print(answer.choices[0].message.content)`}
      />
      <CodeBlock
        wrap
        label="TypeScript"
        code={`import OpenAI from "openai";

const client = new OpenAI({ baseURL: "${baseUrl}", apiKey: process.env.GATEHOUSE_API_KEY });
const answer = await client.chat.completions.create({
  model: "${model}",
  messages: [{ role: "user", content: "Hello" }],
});
console.log(answer.choices[0].message.content);`}
      />
    </ShownOnce>
  );
}
