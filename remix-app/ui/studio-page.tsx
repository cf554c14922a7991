import { Credits } from "./money.tsx";
import { Notice } from "./notice.tsx";
import { WorkspacePage, type WorkspacePageProps } from "./workspace-page.tsx";

interface StudioPageProps extends WorkspacePageProps {
  workspace: WorkspacePageProps["workspace"] & {
    creditNotice?: { level: "low" | "empty"; available: string } | null;
  };
}

/** Renders the frame of an AI studio page, and warns if credits are low. */
export function StudioPage({ children, ...page }: StudioPageProps) {
  const { creditNotice } = page.workspace;
  return (
    <WorkspacePage {...page}>
      {creditNotice ? <CreditNotice {...creditNotice} /> : null}
      {children}
    </WorkspacePage>
  );
}

function CreditNotice({ level, available }: { level: "low" | "empty"; available: string }) {
  return (
    <Notice tone="warn">
      {level === "empty" ? (
        "Not enough credits: requests are refused (402 insufficient_credits). Ask a platform administrator to add credits."
      ) : (
        <>
          Credits are low: <Credits amount={available} /> left. Ask a platform administrator to add credits.
        </>
      )}
    </Notice>
  );
}
