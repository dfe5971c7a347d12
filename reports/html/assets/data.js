// What the page carries: text compressed with gzip, as base64 in script elements that no browser runs.

function text(key) {
  return document.getElementById(`data-${key}`).textContent;
}

async function unpacked(key) {
  const bytes = Uint8Array.from(atob(text(key)), (letter) => letter.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(plain).blob();
}

async function save(button) {
  const content = await unpacked(`download-${button.dataset.download}`);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: button.dataset.type }));
  link.download = button.dataset.name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
