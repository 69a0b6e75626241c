"""wisp as a model of MTEB, the Massive Text Embedding Benchmark."""

from typing import Any

from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ModelMeta, ScoringFunction
from mteb.types import PromptType

from .embedder import Embedder


class WispEncoder(AbsEncoder):
    """For `mteb.evaluate(WispEncoder(), tasks)`. Options are those of Embedder. Queries and documents get the model's
    prompts for them; MTEB's own prompts of tasks are not used."""

    def __init__(self, model: str | None = None, revision: str | None = None, *, device: str | None = None,
                 **options: Any) -> None:
        self.model = Embedder(model, device=device, **options)
        info = self.model.info
        self.mteb_model_meta = ModelMeta.create_empty({
            "name": f"wisp/{info['name'] or 'model'}", "revision": revision or "local", "framework": ["GGUF"],
            "max_tokens": info["max_tokens"], "embed_dim": self.model.dimensions,
            "n_parameters": info["parameters"], "similarity_fn_name": ScoringFunction.COSINE})

    def encode(self, inputs: Any, *, task_metadata: Any, hf_split: str, hf_subset: str,
               prompt_type: PromptType | None = None, **_: Any) -> Any:
        texts = [text for batch in inputs for text in batch["text"]]
        encoders = {PromptType.query: self.model.encode_query, PromptType.document: self.model.encode_document}
        return encoders.get(prompt_type, self.model.encode)(texts)
