import { Snippet } from "../../ui/snippet.tsx";

/** How a workspace gets its providers' costs in here. */
export function ImportGuide({ gatewayUrl, workspaceId }: { gatewayUrl: string; workspaceId: string }) {
  return (
    <div className="space-y-4">
      <p className="max-w-prose">
        Nothing was imported for this range. Here stands what your providers say runs cost, beside what the gateway
        metered. A registered app sends it, with its token or a key that is bound to it:
      </p>
      <Snippet
        label="Import a cost with curl"
        code={`curl ${gatewayUrl}/provider-costs \\
  -H "Authorization: Bearer $GATEHOUSE_API_KEY" \\
  -H "X-Platform-Workspace-Id: ${workspaceId}" \\
  -H "Content-Type: application/json" \\
  -d '{
    "provider": "openai",
    "accountId": "proj_1",
    "externalRunId": "run-1",
    "amountUsd": 0.0042,
    "occurredAt": "2026-01-31T12:00:00Z",
    "observedAt": "2026-01-31T12:00:05Z"
  }'`}
      />
      <p>OpenAI’s daily costs of a project are imported by a command, as account days:</p>
      <Snippet label="Import OpenAI’s costs" code="npm run import-openai-costs -- --project proj_1" />
    </div>
  );
}
