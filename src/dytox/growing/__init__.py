"""A model directory that grows by folders of images: what `dytox learn` does around the learner."""
