import { useSite } from "../ui/site.ts";

/** Names a workspace, and links to its page of the console for people who may open that page. */
export function WorkspaceLink({ workspaceId, name }: { workspaceId: string; name: string }) {
  if (useSite()?.user?.consoleRole !== "admin") return <span className="wrap-anywhere">{name}</span>;
  return (
    <a className="link wrap-anywhere" href={`/admin/workspaces/${workspaceId}`}>
      {name}
    </a>
  );
}
