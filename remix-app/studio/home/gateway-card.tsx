import { Card } from "../../ui/card.tsx";
import { CopyableText } from "../../ui/code-block.tsx";

/** Shows the URL where programs call the gateway. */
export function GatewayCard({ url }: { url: string }) {
  return (
    <Card title="Call the gateway" lead="Works with any OpenAI client.">
      <CopyableText label="Base URL" text={url} />
      <p className="mt-4">
        <a href="/docs/api" className="link">
          API reference
        </a>
      </p>
    </Card>
  );
}
