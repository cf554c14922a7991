import { useLocation } from "@remix-run/react";
import { CodeBlock } from "../../ui/code-block.tsx";
import { searchWith } from "../range.ts";
import type { ImportFilter } from "./import-filter.ts";

/** Explains how a workspace imports its providers' costs. */
export function ImportGuide({ gatewayUrl, workspaceId }: { gatewayUrl: string; workspaceId: string }) {
  return (
    <div className="space-y-4">
      <p className="max-w-prose">
        Nothing was imported for this range. Import a provider’s bill{" "}
        <a className="link" href={`/workspaces/${workspaceId}/ai/costs/import`}>
          from a file
        </a>{" "}
        to compare it with what the gateway metered. For AWS, Google Cloud and Azure, export FOCUS as CSV: it names each
        service with its category. A linked app can also send costs with its app token or an API key created for it:
      </p>
      <CodeBlock
        wrap
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
    </div>
  );
}

/** Shows the filter of a list of imports, with a link that clears it. */
export function ImportFilterNotice({ filter, of }: { filter: ImportFilter; of: string }) {
  const { search } = useLocation();
  const { provider, accountId, month } = filter;
  const parts = [
    provider ?? [],
    accountId === undefined ? [] : accountId === null ? "without an account" : `account ${accountId}`,
    month ? `counted in ${month}` : [],
  ].flat();
  if (parts.length === 0) return null;
  return (
    <p className="flex flex-wrap gap-x-3 gap-y-1">
      <span className="min-w-0 break-words">
        Only {of} of {parts.join(", ")}.
      </span>
      <a className="link" href={searchWith(search, { provider: "", account: "", noAccount: "", month: "" })}>
        Show all
      </a>
    </p>
  );
}
