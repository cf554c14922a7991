import { InlineScript } from "../../ui/inline-script.tsx";
import newRunsScript from "./new-runs.js?raw";

/**
 * Offers the runs that begin while the page is shown, by a poll of the API. The region is in the page from the start, so
 * that screen readers announce what appears in it.
 * @param props.pollPath the API's list of runs with the page's filters, from the newest run on
 * @param props.newest the id of the newest run on the page
 */
export function NewRuns({ pollPath, newest, href }: { pollPath: string; newest: string; href: string }) {
  return (
    <>
      <p id="new-runs" role="status" data-poll={pollPath} data-newest={newest} className="sr-only">
        {/* biome-ignore lint/a11y/useAnchorContent: the script adds the text */}
        <a className="link font-medium" href={href} hidden />
      </p>
      <InlineScript source={newRunsScript} />
    </>
  );
}
