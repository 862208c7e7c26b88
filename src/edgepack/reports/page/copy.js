// Buttons that copy the text beside them, where the browser lets a page do so.
for (const row of globalThis.document?.querySelectorAll(".copy") ?? []) {
  const [text, button] = [row.querySelector("code"), row.querySelector("button")];
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(text);
      button.textContent = "selected";
    }
    setTimeout(() => (button.textContent = "copy"), 2000);
  });
}
