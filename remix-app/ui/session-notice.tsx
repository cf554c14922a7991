/**
 * Renders the notice that `session-channel.js` shows if another tab changed the account while this page contains typed
 * values or a key that is shown only once, and while the page is hidden because its session cannot be confirmed.
 */
export function SessionNotice() {
  return (
    <div
      id="session-notice"
      role="status"
      hidden
      className="fixed inset-x-4 bottom-4 z-20 mx-auto flex max-w-108 flex-wrap items-center justify-between gap-3 rounded-card border border-line bg-raised p-3 shadow-lg [&[hidden]]:hidden"
    >
      <span className="wrap-anywhere min-w-0" />
      <button type="button" className="link cursor-pointer" />
    </div>
  );
}
