"""What a model's methods are told is honoured or refused by name: hooks, filters, texts, `cfg`."""

import copy
import pickle

import numpy as np
import pytest
import torch
from transformer_lens import ActivationCache

from interp import DyckGrammar, Population, SandboxTransformer, TopicGrammar, TransformerConfig
from interp.errors import InterpError, RequestError
from interp.grammars import Vocabulary
from interp.model.masks import Trusted

START, PAD = 4, 6
GRAMMAR = DyckGrammar(2, 4)


@pytest.fixture
def model():
    config = TransformerConfig(7, d_model=12, d_head=6, n_heads=2, d_mlp=10, pad_token=PAD, n_ctx=5)
    return SandboxTransformer.init(config, 0, GRAMMAR)


def words(**special):
    names = ("a", "b", "<bos>", "pad", "c", "d", "e")
    grammar = Vocabulary(names, **{"start": 2, "pad": 3, **special})
    return SandboxTransformer.init(TransformerConfig(7, d_model=8, d_head=8, d_mlp=8, pad_token=3), 0, grammar)


# -- hooks --------------------------------------------------------------------------------------------

WRONG_NAMES = [
    ("blocks.0.attn.hook_patern", "'blocks.0.attn.hook_patern' is not a hook of this model: did you mean 'blocks.0"),
    ("typo", "'typo' is not a hook of this model: model.hook_dict lists them"),
    ("blocks.0.attn", "'blocks.0.attn' is not a hook of this model"),  # a module, and no hook point
    ("blocks.0.attn.hook_result", "is not a hook of this model: did you mean"),
    ("hook_pos_embed", "is not a hook of this model"),  # this model has no positions
    (lambda name: name.endswith("hook_result"), "accepts none of this model's"),
    (3, "=3 is not a name of a hook"),
]  # fmt: skip


def same(x, hook):
    return x


USES = {
    "run_with_cache": lambda model, name: model.run_with_cache("()", names_filter=name),
    "get_caching_hooks": lambda model, name: model.get_caching_hooks(name),
    "add_caching_hooks": lambda model, name: model.add_caching_hooks(name),
    "run_with_hooks": lambda model, name: model.run_with_hooks("()", fwd_hooks=[(name, same)]),
    "backward hooks": lambda model, name: model.run_with_hooks("()", bwd_hooks=[(name, same)]),
    "hooks": lambda model, name: model.hooks(fwd_hooks=[(name, same)]).__enter__(),
    "add_hook": lambda model, name: model.add_hook(name, same),
    "add_perma_hook": lambda model, name: model.add_perma_hook(name, same),
}


@pytest.mark.parametrize(("name", "said"), WRONG_NAMES)
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_hook_that_is_not_there_is_refused(model, use, name, said):
    plain = model("([])")
    with pytest.raises(RequestError, match=said) as error:
        use(model, name)
    assert "\n" not in str(error.value)
    assert not any(point.fwd_hooks or point.bwd_hooks for point in model.hook_dict.values())
    assert torch.equal(model("([])"), plain)


@pytest.mark.parametrize("wrong", ["typo", 3, None])
def test_one_wrong_name_among_several_is_refused(model, wrong):
    with pytest.raises(RequestError, match="names_filter="):
        model.run_with_cache("()", names_filter=["hook_embed", wrong])
    with pytest.raises(RequestError, match="hook name="):
        model.run_with_hooks("()", fwd_hooks=[("hook_embed", same), ("typo", same)])
    assert not any(point.fwd_hooks for point in model.hook_dict.values())


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        ("hook_embed", ["hook_embed"]),
        (["hook_embed", "ln_final.hook_scale"], ["hook_embed", "ln_final.hook_scale"]),
        (("hook_embed",), ["hook_embed"]),
        ([], []),  # nothing was asked for
        (lambda name: "pattern" in name, ["blocks.0.attn.hook_pattern", "blocks.1.attn.hook_pattern"]),
    ],
)
def test_what_a_filter_names_is_cached(model, wanted, kept):
    cache = model.run_with_cache("()", names_filter=wanted)[1]
    assert list(cache) == kept
    assert len(model.run_with_cache("()")[1]) == len(model.hook_dict)


def test_hooks_by_name_and_by_function_run_once_where_they_are_meant(model):
    seen = []
    model.add_hook(lambda name: name.endswith("hook_z"), lambda x, hook: seen.append(hook.name))
    model.run_with_hooks("()", fwd_hooks=[("hook_embed", lambda x, hook: seen.append(hook.name))])
    assert sorted(seen) == ["blocks.0.attn.hook_z", "blocks.1.attn.hook_z", "hook_embed"]


@pytest.mark.parametrize(
    ("arguments", "said"), [(("fn",), "hook='fn' is not a function"), ((same, "forward"), "dir='forward'")]
)
def test_hooks_that_cannot_be_are_refused(model, arguments, said):
    with pytest.raises(RequestError, match=said):
        model.add_hook("hook_embed", *arguments)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"remove_batch_dim": True}, "remove_batch_dim=True is for one row, and 2 are given"),
        ({"incl_bwd": True}, "incl_bwd=True takes gradients of the loss"),
        ({"device": "abacus"}, "device 'abacus' is not usable"),
        ({"return_type": "both"}, "return_type 'both'"),
    ],
)
def test_a_cache_that_cannot_be_is_refused(model, how, said):
    for given in (["()", "[]"], model.to_tokens(["()", "[]"])):
        with pytest.raises(RequestError, match=said):
            model.run_with_cache(given, **how)


@pytest.mark.parametrize("keyword", ["names_filer", "start_at_layer", "prepend_bos", "padding_side", "loss_per_token"])
def test_keywords_that_no_method_has_are_pythons_own_error(model, keyword):
    for call in (model, model.run_with_cache, model.run_with_hooks):
        with pytest.raises(TypeError, match=keyword):
            call("()", **{keyword: "left"})


def test_one_row_is_cached_without_its_batch_axis(model):
    for given in ("()", model.to_tokens("()"), torch.tensor([START, 0, 1])):
        cache = model.run_with_cache(given, remove_batch_dim=True)[1]
        assert isinstance(cache, ActivationCache)
        assert cache["pattern", 0].shape == (2, 3, 3)
        assert not cache.has_batch_dim


# -- texts --------------------------------------------------------------------------------------------


def test_texts_are_padded_on_the_side_that_is_asked_for(model):
    texts = ["([])", "", "[]"]
    right = [[4, 0, 2, 3, 1], [4, 6, 6, 6, 6], [4, 2, 3, 6, 6]]
    left = [[4, 0, 2, 3, 1], [6, 6, 6, 6, 4], [6, 6, 4, 2, 3]]
    assert model.to_tokens(texts).tolist() == model.to_tokens(texts, padding_side="right").tolist() == right
    assert model.to_tokens(texts, padding_side="left").tolist() == left
    assert model.to_tokens(texts, prepend_bos=False, padding_side="left").tolist() == [row[1:] for row in (
        left[0], [4, 6, 6, 6, 6], [6, 6, 6, 2, 3])]  # fmt: skip
    assert model.to_tokens([], padding_side="left").shape == (0, 1)


def test_start_stands_where_it_is_asked_for(model):
    assert model.to_tokens("()", prepend_bos=True).tolist() == [[4, 0, 1]]
    assert model.to_tokens("()", prepend_bos=False).tolist() == [[0, 1]]
    for prepends in (True, False):
        of_words = words(prepend_start=prepends)
        assert of_words.to_tokens("ab").tolist() == ([[2, 0, 1]] if prepends else [[0, 1]])
        assert of_words.to_tokens("ab", prepend_bos=True).tolist() == [[2, 0, 1]]
        assert of_words.to_tokens("ab", prepend_bos=False).tolist() == [[0, 1]]
        assert of_words.to_tokens("<bos>ab", prepend_bos=False).tolist() == [[2, 0, 1]]  # it is written there
        assert of_words.cfg.default_prepend_bos is prepends


def test_long_texts_are_cut_where_that_is_asked_for(model):
    assert model.to_tokens("([])[]").shape == (1, 7)
    assert model.to_tokens("([])[]", truncate=True).tolist() == [[4, 0, 2, 3, 1]]
    assert model.to_tokens(torch.arange(6), truncate=True).tolist() == [[0, 1, 2, 3, 4]]


def test_tokens_go_where_they_are_asked_to(model):
    model = model.to("meta")
    assert model.to_tokens("()").device.type == "meta"
    assert model.to_tokens("()", move_to_device=False).device.type == "cpu"
    ids = torch.tensor([[4, 0]])
    assert model.to_tokens(ids).device.type == model.to_tokens(ids, move_to_device=False).device.type == "cpu"
    assert model.to_tokens(ids, move_to_device=True).device.type == "meta"


@pytest.mark.parametrize(
    ("text", "how", "said"),
    [
        ("()", {"padding_side": "up"}, "padding_side='up' is not one of right, left"),
        ("()", {"prepend_bos": "no"}, "prepend_bos='no' is not True, False or None"),
        (torch.tensor([[4, 0]]), {"prepend_bos": True}, "prepend_bos=True changes nothing here: token ids"),
        (torch.tensor([[4, 0]]), {"padding_side": "left"}, "padding_side='left' changes nothing here: token ids"),
        (np.array([[4, 0]]), {"prepend_bos": False}, "prepend_bos=False changes nothing here: token ids"),
        (torch.tensor([[4.0, 0.0]]), {}, "a tensor of torch.float32 holds no token ids"),
        (torch.tensor([[True]]), {}, "a tensor of torch.bool holds no token ids"),
    ],
)
def test_readings_that_cannot_be_are_refused(model, text, how, said):
    with pytest.raises(RequestError, match=said):
        model.to_tokens(text, **how)


def test_start_cannot_be_asked_of_a_language_without_one():
    topics = TopicGrammar(2, 3)
    model = SandboxTransformer.init(TransformerConfig(7, d_model=8, d_head=8, d_mlp=8), 0, topics)
    assert model.to_tokens("t0w0 t1w1", prepend_bos=False).tolist() == model.to_tokens("t0w0 t1w1").tolist()
    for one in (model, words(start=None)):
        with pytest.raises(RequestError, match="prepend_bos=True needs a START"):
            one.to_tokens("t0w0" if one is model else "ab", prepend_bos=True)
        assert one.cfg.default_prepend_bos is False


@pytest.mark.parametrize("method", ["to_tokens", "to_str_tokens", "to_single_token"])
def test_misspelt_keywords_of_texts_are_pythons_own_error(model, method):
    with pytest.raises(TypeError, match="prepend_boss"):
        getattr(model, method)("(", prepend_boss=False)


def test_token_strings_of_several_texts_are_several_lists(model):
    assert model.to_str_tokens(["()", "["]) == [["START", "(", ")"], ["START", "["]]
    assert model.to_str_tokens(["()"], prepend_bos=False) == [["(", ")"]]
    assert model.to_str_tokens(np.array([4, 0])) == model.to_str_tokens(torch.tensor([[4, 0]])) == ["START", "("]
    with pytest.raises(RequestError, match="takes one row of ids, and 2 are given"):
        model.to_str_tokens(torch.tensor([[4, 0], [4, 2]]))


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_arrays_of_ids_are_ids(model, kind):
    ids = torch.tensor([[4, 0, 2, 3, 1]])
    assert torch.equal(model.to_tokens(ids.numpy().astype(kind)), ids)
    assert torch.equal(model(ids.numpy().astype(kind)), model(ids))
    assert torch.equal(model(ids, first=np.int64(2)), model(ids, first=2))


INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


@pytest.mark.parametrize("kind", INTEGERS)
def test_ids_of_any_integer_type_are_the_same_ids(model, kind):
    ids = torch.tensor([[4, 0, 2, 3, 1]])
    for same in (ids.to(getattr(torch, kind)), ids.numpy().astype(kind), ids.numpy().astype(kind).byteswap().view(
        np.dtype(kind).newbyteorder())):  # fmt: skip
        for how in ({}, {"return_type": "loss"}, {"first": 2}):
            assert torch.equal(model(same, **how), model(ids, **how))
        assert model.to_tokens(same).dtype == torch.int64
        assert torch.equal(model.run_with_cache(same)[1]["hook_embed"], model.run_with_cache(ids)[1]["hook_embed"])
        assert model.to_str_tokens(same) == model.to_str_tokens(ids)
        assert torch.equal(model.tokens_to_residual_directions(torch.as_tensor(same.astype("int64") if isinstance(
            same, np.ndarray) else same)), model.tokens_to_residual_directions(ids))  # fmt: skip


READERS = {
    "forward": lambda model, ids: model(ids),
    "loss": lambda model, ids: model(ids, return_type="loss"),
    "run_with_cache": lambda model, ids: model.run_with_cache(ids),
    "run_with_hooks": lambda model, ids: model.run_with_hooks(ids, fwd_hooks=[("hook_embed", same)]),
    "visible_keys": lambda model, ids: model.visible_keys(ids),
    "to_tokens": lambda model, ids: model.to_tokens(ids),
    "to_str_tokens": lambda model, ids: model.to_str_tokens(ids),
    "tokens_to_residual_directions": lambda model, ids: model.tokens_to_residual_directions(ids),
}


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("use", READERS.values(), ids=READERS)
@pytest.mark.parametrize("embedding", ["learned", "onehot", "minimal"])
def test_ids_outside_the_vocabulary_are_refused(use, kind, embedding):
    sizes = {"d_model": {"minimal": 17, "onehot": 7}.get(embedding, 8), "n_layers": 1, "d_head": 8, "d_mlp": 8}
    config = TransformerConfig(7, embedding=embedding, num_types=2, max_depth=4, pad_token=PAD, **sizes)
    model = SandboxTransformer.init(config, 0, GRAMMAR)
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    for wrong in {7, most, *((-1, least) if least < 0 else ())}:
        ids = np.array([[4, 0, wrong]], dtype=kind)
        for given in (torch.from_numpy(ids), torch.from_numpy(ids)[0]):
            with pytest.raises(RequestError, match=f"tokens hold id {wrong}, and the model knows ids 0 to 6"):
                use(model, given)


def test_ids_are_looked_at_once_a_call_and_not_where_their_maker_answers_for_them(model, monkeypatch):
    looks = []
    monkeypatch.setattr("torch.aminmax", lambda x: looks.append(x) or (x.min(), x.max()))
    ids = torch.tensor([[4, 0, 2, 3, 1]])
    for call in (model, model.run_with_cache, lambda ids: model.run_with_hooks(ids, fwd_hooks=[])):
        looks.clear()
        call(ids)
        assert len(looks) == 1
    seen = model.visible_keys(ids)
    looks.clear()
    model(ids, visible=Trusted(seen))
    model(ids, positions=Trusted(torch.arange(5)[None]))
    torch.vmap(model)(ids[None])
    assert not looks


@pytest.mark.parametrize("wrong", [None, 5, 5.5, b"()", object(), {"a": 1}, [None], [[0, "("]], np.zeros((1, 2))])
@pytest.mark.parametrize("use", [*READERS.values(), lambda model, x: model.to_single_token(x)], ids=[*READERS, "one"])
def test_what_is_neither_text_nor_ids_is_refused(model, use, wrong):
    if isinstance(wrong, int) and use is READERS["tokens_to_residual_directions"]:
        return  # one id
    with pytest.raises(InterpError) as error:
        use(model, wrong)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("wrong", ["junk", 99, -9, [0, 5], [0.5], ("a",), 1.5, True, {}, np.zeros((2, 2))])
def test_positions_that_a_cache_cannot_keep_are_refused(model, wrong):
    with pytest.raises(RequestError, match="pos_slice="):
        model.run_with_cache("([])", pos_slice=wrong)


@pytest.mark.parametrize(
    ("kept", "places"),
    [(-1, [4]), (np.int64(1), [1]), ([0, 2], [0, 2]), ((1, 3), [1, 2]), (slice(0, 5, 2), [0, 2, 4]), (None, range(5))],
)
def test_positions_of_a_cache_are_kept(model, kept, places):
    every, some = (model.run_with_cache("([])", pos_slice=p)[1]["hook_embed"] for p in (None, kept))
    assert torch.equal(some, every[:, list(places)])


# -- cfg ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["use_attn_result", "n_ctx", "default_prepend_bos", "brand_new"])
def test_nothing_can_be_set_in_cfg(model, name):
    before = vars(model.cfg)
    with pytest.raises(RequestError, match=rf"cfg\.{name}=3 would change nothing: cfg is a view"):
        setattr(model.cfg, name, 3)
    with pytest.raises(RequestError, match=rf"cfg\.{name} cannot be deleted"):
        delattr(model.cfg, name)
    assert vars(model.cfg) == before
    with pytest.raises(AttributeError):
        model.cfg = None


def test_cfg_can_be_kept_and_copied(model):
    kept = model.cfg
    for other in (copy.deepcopy(kept), copy.copy(kept), pickle.loads(pickle.dumps(kept))):
        assert vars(other) == vars(kept)


# -- populations ----------------------------------------------------------------------------------------


def test_numpy_seeds_and_steps_are_plain_numbers(model):
    population = Population.init(model.config, np.arange(2), GRAMMAR)
    assert population.seeds == (0, 1)
    assert [type(seed) for seed in population.seeds] == [int, int]
    assert [type(one.provenance["seed"]) for one in population] == [int, int]
    assert Population.from_models([model, SandboxTransformer.init(model.config, np.int64(3))][:1]).seeds == (0,)
    one = Population(model.config, GRAMMAR, population.params, np.array([5, 6]), {}, (), {4: population.params})
    assert one.at_step(np.int64(4)).provenance == {"step": 4}
    assert type(one.at_step(np.int64(4)).provenance["step"]) is int
    assert torch.equal(one[np.int64(1)].W_E, one[1].W_E)
