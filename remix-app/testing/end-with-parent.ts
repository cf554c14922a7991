/** Preloaded into a web server under test (`--import`). Ends the server when the test process is gone. */
process.on("disconnect", () => process.exit());
